"""Saved plans at today's prices: keep, switch, or no longer valid.

answer    what it comes to: a verdict for each plan, and the report
plans     plan files, found and read
prices    the offers of the day; a mark of all that could matter to a plan
standing  what a saved plan costs and breaks at the prices of the day
decide    from figures to a verdict: margin, pay-back, two looks in a row
state     what the last look found, kept beside the plans
look      one look at one plan: answered from the last one where nothing that matters has changed, else solved anew
run       all plans
"""
