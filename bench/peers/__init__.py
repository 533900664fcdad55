"""Other engines' cache cores beside ours: installed from the package index, run unmodified, never copied."""
