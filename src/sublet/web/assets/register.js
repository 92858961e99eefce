// Asks the API half a second after the last key whether the typed name is available.
const search = document.querySelector(".search-name")
const field = document.getElementById("label")
const domain = document.getElementById("domain")
const answer = document.getElementById("availability")
const rest = document.getElementById("rest")
const button = document.getElementById("search")
const words = JSON.parse(search.dataset.reasons)
let timer = 0
let asked = 0

function chip(kind, text) {
    const made = document.createElement("span")
    made.className = `chip ${kind}`
    made.textContent = text
    return made
}

async function ask() {
    const label = field.value.trim()
    const mine = ++asked
    if (!label) return answer.replaceChildren()
    const fqdn = label.includes(".") ? label : `${label}.${domain.value}`
    const headers = search.dataset.organization ? {"sublet-organization": search.dataset.organization} : {}
    const response = await fetch(`${search.dataset.api}/availability?${new URLSearchParams({fqdn})}`, {headers}).catch(() => null)
    if (mine !== asked || response === null) return
    const found = await response.json()
    if (!found.ok) {
        // A refusal without errors is not about the name. The page after the button shows it.
        const shown = found.errors.slice(0, 1).map((each) => ` ${each.message.replaceAll("`", "")}`)
        return answer.replaceChildren(...(shown.length ? [chip("bad", "Not a name that works")] : []), ...shown)
    }
    const {fqdn: canonical, available, modes, reason, unavailable_reason: held, owned} = found.availability
    const name = document.createElement(owned ? "a" : "strong")
    name.textContent = canonical
    if (owned) name.href = location.pathname.replace(/register$/, `names/${canonical}`)
    const why = words[(owned ? "own " : "") + held] || words[reason] || reason
    answer.replaceChildren(available || modes.length > 0 ? chip("good", "Available") : chip("bad", why), " ", name, canonical.startsWith("xn--") ? ` ${label}` : "")
}

search.addEventListener("input", () => {
    clearTimeout(timer)
    // The refusal, the price and the button are about the former name. The rest of the form is kept.
    document.getElementById("refused")?.remove()
    document.getElementById("quote")?.remove()
    const last = rest?.querySelector("button:not(.quiet)")
    if (last) last.textContent = "Go on"
    button.className = ""
    button.textContent = "Go on"
    timer = setTimeout(ask, 500)
})
