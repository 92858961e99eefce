// A name that is being published: ask the API until its state is another one, then load the page with it.
const list = document.getElementById("progress")

async function look() {
    if (document.visibilityState === "visible") {
        const headers = list.dataset.organization ? {"sublet-organization": list.dataset.organization} : {}
        const answer = await fetch(list.dataset.api, {headers}).catch(() => null)
        const found = answer && answer.ok ? await answer.json() : null
        if (found && found.subdomain.status !== list.dataset.status) {
            location.reload()
            return
        }
    }
    setTimeout(look, 1000)
}

if (list) setTimeout(look, 500)
