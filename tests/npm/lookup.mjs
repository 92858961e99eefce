// Look up names by rdapper with a bootstrap of one server, and print the results as JSON: node lookup.mjs SERVER TLD NAME …
import { lookup } from "rdapper";

const [server, tld, ...names] = process.argv.slice(2);
const bootstrap = { version: "1.0", publication: "2026-11-27T00:00:00Z", services: [[[tld], [server]]] };
const found = {};
for (const name of names) found[name] = await lookup(name, { rdapOnly: true, customBootstrapData: bootstrap });
console.log(JSON.stringify(found));
