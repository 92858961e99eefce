// Adds a passkey through the API, with the session's cookie.
const form = document.getElementById("add-passkey")
const error = document.getElementById("passkey-error")

async function send(path, members) {
    const answer = await fetch("/api/v1" + path, {
        method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(members),
    }).catch(() => null)
    const found = await answer?.json().catch(() => null)
    if (answer?.ok && found) return found
    document.getElementById("passkey-again").hidden = !["sign_in_required", "session_invalid", "token_missing"].includes(found?.error)
    throw new Error(found?.errors?.[0]?.message ?? found?.message ?? "The service can't be reached. Try again.")
}

form.hidden = !window.PublicKeyCredential?.parseCreationOptionsFromJSON
document.getElementById("no-passkeys").hidden = !form.hidden
form.addEventListener("submit", async (event) => {
    event.preventDefault()
    const button = form.querySelector("button")
    button.disabled = true
    error.textContent = ""
    try {
        const { public_key: options } = await send("/passkeys/challenge", {})
        const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options)
        const credential = (await navigator.credentials.create({ publicKey })).toJSON()
        await send("/passkeys", { name: form.elements.name.value, credential })
        location.assign("/passkeys")
    } catch (refused) {
        // NotAllowedError: the person cancelled, or the authenticator timed out.
        error.textContent = refused.name === "NotAllowedError" ? "No passkey was added. Try again." : refused.message
        button.disabled = false
    }
})
