"""Result files, and the pages and README parts that are made of them. Measures nothing."""
