// Adds a button that copies the text to each element with data-copy, whose value says what it is.
for (const text of document.querySelectorAll("[data-copy]")) {
    const button = document.createElement("button")
    button.type = "button"
    button.className = "quiet copy"
    const label = document.createElement("span")
    label.textContent = "Copy"
    const what = document.createElement("span")
    what.className = "unseen"
    what.textContent = ` ${text.dataset.copy}`
    button.append(label, what)
    button.addEventListener("click", async () => {
        await navigator.clipboard.writeText(text.innerText.trim())
        label.textContent = "Copied"
    })
    text.after(button)
}
