// Sends a request to the API with the session's cookie, and shows the request and the answer.
const form = document.getElementById("try")
const { operation, path, body } = form.elements
const bodyField = document.getElementById("body-field")
const SHOWN_MAX = 100_000

function fillIn() {
    const { dataset } = operation.selectedOptions[0]
    path.value = dataset.path
    bodyField.hidden = dataset.method === "GET"
    body.value = dataset.body ?? ""
}

async function send(event) {
    event.preventDefault()
    const { method } = operation.selectedOptions[0].dataset
    const headers = {}
    if (method !== "GET") headers["Content-Type"] = "application/json"
    if (method === "POST") headers["Idempotency-Key"] = crypto.randomUUID()
    if (form.dataset.organization) headers["Sublet-Organization"] = form.dataset.organization
    const lines = [`${method} ${path.value}`, ...Object.entries(headers).map((each) => each.join(": "))]
    document.getElementById("request").textContent = lines.join("\n") + (method === "GET" ? "" : "\n\n" + body.value)
    document.getElementById("result").hidden = false
    document.getElementById("answer").textContent = await sendAndFormat(method, headers)
}

async function sendAndFormat(method, headers) {
    // Check this here for a clear message: the page's Content-Security-Policy blocks other sites anyway.
    const url = new URL(path.value, location.origin)
    if (url.origin !== location.origin) return "Give a path of this site."
    try {
        const answer = await fetch(url, { method, headers, body: method === "GET" ? undefined : body.value })
        const text = await answer.text()
        const shown = [...answer.headers].map((each) => each.join(": ")).join("\n")
        return `${answer.status}\n${shown}\n\n${pretty(text).slice(0, SHOWN_MAX)}`
    } catch {
        return "The service can't be reached. Try again."
    }
}

function pretty(text) {
    try { return JSON.stringify(JSON.parse(text), null, 2) } catch { return text }
}

document.getElementById("no-script").hidden = true
form.hidden = false
if ([...operation.options].some((each) => each.value === location.hash.slice(1))) operation.value = location.hash.slice(1)
operation.addEventListener("change", fillIn)
form.addEventListener("submit", send)
fillIn()
