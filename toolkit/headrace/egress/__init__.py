"""From the instances' result rings to ordered batches, and to where the user wants them."""
