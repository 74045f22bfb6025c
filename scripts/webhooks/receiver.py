"""A receiver that checks what comes with the official library for Python."""

import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

from standardwebhooks import Webhook, WebhookVerificationError

with open(sys.argv[1], encoding="ascii") as file:
    hook = Webhook(file.read())


class Receiver(BaseHTTPRequestHandler):
    """Answers each POST."""

    def do_POST(self) -> None:
        """Checks one message."""
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            print("good", hook.verify(body, headers)["type"], flush=True)
            try:
                hook.verify(body.replace("{", "{ "), headers)
                print("took a changed body", flush=True)
            except WebhookVerificationError:
                print("refused a changed body", flush=True)
            self.send_response(204)
        except WebhookVerificationError as error:
            print("bad", error, flush=True)
            self.send_response(400)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Logs nothing."""


server = HTTPServer(("127.0.0.1", 0), Receiver)
print("listening on", server.server_port, flush=True)
server.serve_forever()
