// Adds a button that copies the text to each <pre data-copy>.
for (const text of document.querySelectorAll("[data-copy]")) {
    const button = document.createElement("button")
    button.type = "button"
    button.className = "quiet"
    button.textContent = "Copy"
    button.addEventListener("click", async () => {
        await navigator.clipboard.writeText(text.textContent)
        button.textContent = "Copied"
    })
    text.after(button)
}
