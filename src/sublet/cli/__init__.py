"""The operator's command line: `sublet`, one file a noun. An edge: it turns arguments into verbs, and holds no rule."""
