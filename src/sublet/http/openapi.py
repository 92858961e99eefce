def build_document(e, b, v):
    return {}
