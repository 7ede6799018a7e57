"""What a method is made of: what is shared, who is asked, how replies are merged."""
