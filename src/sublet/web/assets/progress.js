// Shows the answers of the name servers while a name is being published, and reloads the page when its status changes.
const list = document.getElementById("progress")
const servers = document.getElementById("servers")
const SECONDS_MAX = 120
const started = Date.now()

async function get(path) {
    const headers = list.dataset.organization ? {"sublet-organization": list.dataset.organization} : {}
    const answer = await fetch(list.dataset.api + path, {headers}).catch(() => null)
    return answer && answer.ok ? answer.json() : null
}

function serverItem(server) {
    const made = document.createElement("li")
    const chip = document.createElement("span")
    const [kind, words] = server.error ? ["bad", "No answer"] : server.matches ? ["good", "Confirmed"] : ["warn", "Not yet"]
    chip.className = `chip ${kind}`
    chip.textContent = words
    made.append(server.server, " ", chip)
    return made
}

async function poll() {
    let all = false
    if (document.visibilityState === "visible") {
        const found = await get("")
        // A reload would take away what a person types into an open form.
        const mayReload = !document.querySelector("main details[open] form")
        if (found && mayReload && found.subdomain.status !== list.dataset.status) return location.replace(`${location.pathname}?published=yes`)
        const asked = await get("/delegation")
        if (asked) {
            servers.replaceChildren(...asked.delegation.servers.map(serverItem))
            all = asked.delegation.in_agreement
        }
    }
    const settled = all && list.dataset.status !== "provisioning"
    if (!settled && Date.now() - started < SECONDS_MAX * 1000) setTimeout(poll, 1500)
}

if (list) poll()
