// Logs alice in with the authorization code flow and PKCE, as an app without an SDK does it, and prints her token. With a
// fourth argument it writes into that file what curl has to send to get the next token without her.
//
//	node login.mjs http://127.0.0.1:9000 http://127.0.0.1:7070 "read run" [FILE]
import { createHash, randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { authorize } from "./browser.mjs";

const [issuer, resource, scope, file] = process.argv.slice(2);
const redirect_uri = "http://127.0.0.1:9/callback";

async function ask(url, options) {
  const res = await fetch(url, options);
  if (!res.ok) {
    throw new Error(`${url} answers ${res.status}: ${await res.text()}`);
  }
  return res.json();
}

const provider = await ask(`${issuer}/.well-known/openid-configuration`);
const { client_id } = await ask(provider.registration_endpoint, {
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify({
    redirect_uris: [redirect_uri], token_endpoint_auth_method: "none",
    grant_types: file ? ["authorization_code", "refresh_token"] : ["authorization_code"],
  }),
});
const verifier = randomBytes(32).toString("base64url");
const question = new URLSearchParams({
  client_id, redirect_uri, resource, scope, response_type: "code", code_challenge_method: "S256",
  code_challenge: createHash("sha256").update(verifier).digest("base64url"),
});
const answer = await authorize(new URL(`${provider.authorization_endpoint}?${question}`), redirect_uri);
if (!answer.get("code")) {
  throw new Error(`the provider refuses: ${answer}`);
}
const { access_token, refresh_token } = await ask(provider.token_endpoint, {
  method: "POST",
  body: new URLSearchParams({
    client_id, redirect_uri, resource, grant_type: "authorization_code", code: answer.get("code"), code_verifier: verifier,
  }),
});
if (file) {
  writeFileSync(file, String(new URLSearchParams({ grant_type: "refresh_token", client_id, resource, refresh_token })));
}
console.log(access_token);
