// Fills in the nameservers of a preset, and checks the fields of a delegation after each paste and change.
const form = document.querySelector("form[data-check]")
const FIELDS = ["nameservers", "glue", "ds_records"]
let timer = 0
let last = ""

function element(tag, className, ...contents) {
    const made = document.createElement(tag)
    made.className = className
    made.append(...contents)
    return made
}

function showErrors(name, messages) {
    const area = form.elements[name]
    document.getElementById(`${name}-error`)?.remove()
    const described = (area.getAttribute("aria-describedby") ?? "").split(" ").filter((each) => each && each !== `${name}-error`)
    area.parentElement.classList.toggle("wrong", messages.length > 0)
    area.removeAttribute("aria-invalid")
    if (messages.length) {
        const made = element("div", "", ...messages.map((each) => element("p", "error", each)))
        made.id = `${name}-error`
        made.setAttribute("role", "status")
        area.after(made)
        area.setAttribute("aria-invalid", "true")
        described.push(made.id)
        for (let details = area.closest("details"); details; details = details.parentElement.closest("details")) details.open = true
    }
    if (described.length) area.setAttribute("aria-describedby", described.join(" "))
}

function showNote(note) {
    const shown = note ? [element("div", `note ${note.kind}`,
        element("p", "", element("strong", "", note.title)), ...note.lines.map((each) => element("p", "", each)))] : []
    document.getElementById("check").replaceChildren(...shown)
}

async function check() {
    const asked = JSON.stringify(FIELDS.map((name) => form.elements[name].value.trim()))
    if (asked === last) return
    last = asked
    const answer = await fetch(form.dataset.check, {method: "POST", body: new URLSearchParams(new FormData(form))}).catch(() => null)
    if (asked !== last || !answer?.ok) return
    const found = await answer.json()
    for (const name of FIELDS) showErrors(name, found.errors[name])
    showNote(found.note)
}

function checkSoon() {
    clearTimeout(timer)
    timer = setTimeout(check, 500)
}

if (form) {
    for (const name of FIELDS) {
        form.elements[name].addEventListener("paste", checkSoon)
        form.elements[name].addEventListener("change", checkSoon)
    }
    form.elements.apply?.addEventListener("click", (event) => {
        event.preventDefault()
        form.elements.nameservers.value = form.elements.preset.value.split(" ").join("\n")
        checkSoon()
    })
}
