// use is what each client of the SDKs for TypeScript does once it is connected, and what has to come of it.
import assert from "node:assert/strict";

export async function use(client, person, trying, url) {
  const { tools } = await client.listTools();
  assert.equal(person.resource, url.href, "the token is asked for another resource");
  if (!tools.some((tool) => tool.name === "cancel_execution")) { // a gateway
    assert.deepEqual(person.asked, ["run"]);
    console.log("ok", person.asked.join(", then "));
    return client.close();
  }
  assert.deepEqual(person.asked, ["read run"]);
  const text = (result) => result.content[0].text;
  const ran = await client.callTool({ name: "execute_code", arguments: { command: "echo hello from $((40 + 2))" } });
  assert.match(text(ran), /hello from 42/);
  const started = await client.callTool({ name: "execute_code_async", arguments: { command: "sleep 600" } });
  const [, execution_id] = text(started).match(/^\[execution (\w+) is running\]$/);
  // This needs a scope that the token does not have: the person is asked again.
  const cancelled = await trying(() => client.callTool({ name: "cancel_execution", arguments: { execution_id } }));
  assert.ok(!cancelled.isError, text(cancelled));
  assert.deepEqual(person.asked, ["read run", "read run control"]);
  console.log("ok", person.asked.join(", then "));
  await client.close();
}
