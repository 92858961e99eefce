// Adds a button that copies the text to each element with data-copy.
for (const text of document.querySelectorAll("[data-copy]")) {
    const button = document.createElement("button")
    button.type = "button"
    button.className = "quiet"
    button.textContent = "Copy"
    button.addEventListener("click", async () => {
        await navigator.clipboard.writeText(text.innerText.trim())
        button.textContent = "Copied"
    })
    text.after(button)
}
