"""What a run says about itself, of any engine: snapshots, the books, histograms, history.

An engine declares what it measures (`measures.Measure`) and fills in the values;
what is shown of them, and where, follows from the declarations.
"""
