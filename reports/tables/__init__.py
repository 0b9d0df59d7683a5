"""Tables of reports, and the numbers and differences in them."""
