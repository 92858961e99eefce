// A button beside each text that is to be copied: <pre data-copy>.
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
