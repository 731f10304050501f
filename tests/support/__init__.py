"""What tests share: oracles, generators of data and queries, and helpers. There are no tests here."""
