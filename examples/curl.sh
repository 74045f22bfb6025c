#!/usr/bin/env bash
# Resumes with nothing but curl: each connection is killed after a while, and the next
# one goes on after the last id that arrived.
. "$(dirname "$0")/server.sh"
auth="Authorization: Bearer $REPRISE_TOKEN"

# Start a run. The id makes that safe to send again, too.
curl -sSf -H "$auth" -H 'Content-Type: application/json' "$REPRISE_URL/v1/executions" -o /dev/null \
  -d '{"id":"count","command":"for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo line $i; sleep 0.5; done; exit 7"}'

# Follow it, half a second at a time, until the end event.
events=$REPRISE_URL/v1/executions/count/events
: >"$tmp/all"
for connection in $(seq 60); do
  last=$(sed -n 's/^id: //p' "$tmp/all" | tail -n 1)
  curl -sS --no-buffer --max-time 0.5 -H "$auth" -H 'Accept: text/event-stream' \
    ${last:+-H "Last-Event-ID: $last"} "$events" >"$tmp/part" 2>/dev/null || true
  # A frame that was cut off is not an event: its blank line is missing.
  awk 'BEGIN { RS = ""; ORS = "\n\n" } { frames[++n] = $0 } END { for (i = 1; i < n; i++) print frames[i] }' "$tmp/part" >>"$tmp/all"
  last_frame=$(tail -c 2 "$tmp/part" | od -An -c | tr -d ' ')
  if [ "$last_frame" = '\n\n' ]; then
    awk 'BEGIN { RS = ""; ORS = "\n\n" } { frame = $0 } END { if (NR) print frame }' "$tmp/part" >>"$tmp/all"
  fi
  grep -q '^event: end' "$tmp/all" && break
done

cat "$tmp/all"
lines=$(grep -o '"text":"[^"]*"' "$tmp/all" | sed 's/"text":"//; s/"$//' | tr -d '\n' | sed 's/\\n/\n/g')
wanted=$(for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo "line $i"; done)
if [ "$lines" = "$wanted" ] && grep -q '"exit_code":7' "$tmp/all" && [ "$connection" -gt 3 ]; then
  echo "$connection connections, each line once"
else
  echo "FAIL: $connection connections, and these lines:" "$lines" >&2
  exit 1
fi
