PAGE_HEADERS = {}


def render_page(d):
    return "x"
