// A receiver that checks what comes with the official library for JavaScript.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { Webhook } from "standardwebhooks";

const hook = new Webhook(readFileSync(process.argv[2], "utf8"));
const server = createServer(async (request, response) => {
  let body = "";
  request.setEncoding("utf8");
  for await (const part of request) body += part;
  try {
    console.log("good", hook.verify(body, request.headers).type);
    try {
      hook.verify(body.replace("{", "{ "), request.headers);
      console.log("took a changed body");
    } catch {
      console.log("refused a changed body");
    }
    response.writeHead(204).end();
  } catch (error) {
    console.log("bad", error.message);
    response.writeHead(400).end();
  }
});
server.listen(0, "127.0.0.1", () => console.log("listening on", server.address().port));
