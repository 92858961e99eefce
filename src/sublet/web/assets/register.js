// Availability while the name is typed: asks the API half a second after the last key.
const form = document.querySelector(".search-name")
const answer = document.getElementById("availability")
const order = document.getElementById("order")
const words = JSON.parse(form.dataset.reasons)
let timer = 0
let asked = 0

function chip(kind, text) {
    const made = document.createElement("span")
    made.className = `chip ${kind}`
    made.textContent = text
    return made
}

async function ask() {
    const label = form.elements.label.value.trim()
    if (!label) return answer.replaceChildren()
    const fqdn = label.includes(".") ? label : `${label}.${form.elements.domain.value}`
    const mine = ++asked
    const headers = form.dataset.organization ? {"sublet-organization": form.dataset.organization} : {}
    const response = await fetch(`${form.dataset.api}/availability?${new URLSearchParams({fqdn})}`, {headers}).catch(() => null)
    if (mine !== asked || response === null) return
    const found = await response.json()
    if (!found.ok) {
        answer.replaceChildren(chip("bad", "Not a name that works"), ` ${found.errors.length ? found.errors[0].message : found.message}`)
        return
    }
    const name = document.createElement("strong")
    name.textContent = found.availability.fqdn
    const free = found.availability.available || found.availability.modes.length > 0
    const link = document.createElement("a")
    link.textContent = "Go on"
    link.href = `?${new URLSearchParams({fqdn: found.availability.fqdn})}`
    answer.replaceChildren(
        free ? chip("good", "Available") : chip("bad", words[found.availability.reason] || found.availability.reason),
        " ", name, ...(free ? [" ", link] : []),
    )
}

form.addEventListener("input", () => {
    clearTimeout(timer)
    // The form below is for another name.
    if (order) order.hidden = true
    timer = setTimeout(ask, 500)
})
