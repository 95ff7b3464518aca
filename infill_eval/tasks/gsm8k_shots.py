"""Worked examples that stand before a GSM8K question: our own, so that none of them is in anyone's test set.

They show the form of an answer, a line of arithmetic at a time and the result behind ``####``, and ask for what the
problems ask for: several steps, all four operations, percentages, fractions, money, time.
"""

from __future__ import annotations

SHOTS: tuple[tuple[str, str], ...] = (
    (
        "A bakery fills 6 trays with 24 rolls each and sells all but 9 of the rolls. How many rolls does it sell?",
        "The bakery bakes 6 * 24 = 144 rolls.\nIt sells 144 - 9 = 135 rolls.\n#### 135",
    ),
    (
        "Nadia rides 14 kilometres to work and the same way back on each of 5 days. On Saturday she rides "
        "35 kilometres more. How many kilometres does she ride in all?",
        "A working day is 2 * 14 = 28 kilometres.\nFive of them are 5 * 28 = 140 kilometres.\n"
        "With Saturday she rides 140 + 35 = 175 kilometres.\n#### 175",
    ),
    (
        "A coat costs $120. In a sale it is 25% cheaper, and Tomas has a voucher for $15 on top. What does he pay?",
        "The sale takes off 120 * 25 / 100 = 30 dollars.\nThat leaves 120 - 30 = 90 dollars.\n"
        "With the voucher he pays 90 - 15 = 75 dollars.\n#### 75",
    ),
    (
        "A rope of 48 metres is cut into three pieces. The second is twice as long as the first, and the third is as "
        "long as the first two together. How long is the longest piece?",
        "If the first piece is one part, the second is 2 parts and the third 1 + 2 = 3 parts.\n"
        "All together are 1 + 2 + 3 = 6 parts.\nA part is 48 / 6 = 8 metres.\nThe longest piece is 3 * 8 = 24 metres.\n"
        "#### 24",
    ),
    (
        "Ines has read a third of a book of 270 pages. She wants to finish the rest in 12 days, the same number of "
        "pages every day. How many pages is that a day?",
        "She has read 270 / 3 = 90 pages.\n270 - 90 = 180 pages are left.\nThat is 180 / 12 = 15 pages a day.\n#### 15",
    ),
    (
        "A pump moves 40 litres a minute. It runs for 2 hours and 15 minutes. How many litres does it move?",
        "2 hours are 2 * 60 = 120 minutes.\nThe pump runs for 120 + 15 = 135 minutes.\n"
        "It moves 135 * 40 = 5400 litres.\n#### 5400",
    ),
    (
        "In a choir of 52 people there are 8 more altos than sopranos, and 20 people sing something else. How many "
        "altos are there?",
        "Altos and sopranos together are 52 - 20 = 32 people.\nWithout the 8 additional altos there are 32 - 8 = 24.\n"
        "So there are 24 / 2 = 12 sopranos.\nThe altos are 12 + 8 = 20 people.\n#### 20",
    ),
    (
        "Olu buys 4 notebooks at $2.50 each and 3 pens at $1.20 each, and pays with a $20 note. How many dollars of "
        "change does he get?",
        "The notebooks cost 4 * 2.50 = 10 dollars.\nThe pens cost 3 * 1.20 = 3.60 dollars.\n"
        "Together that is 10 + 3.60 = 13.60 dollars.\nThe change is 20 - 13.60 = 6.40 dollars.\n#### 6.40",
    ),
)
"""Question and answer, in the order in which they are taken."""
