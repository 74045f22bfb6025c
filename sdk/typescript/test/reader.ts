// A program that follows a stream, appends what it gets to a file and keeps its cursor in another one:
// reader.js URL TOKEN STREAM CURSOR_FILE OUTPUT_FILE
import { appendFileSync } from 'node:fs'
import { Reprise } from 'reprise'
import { FileCursor } from 'reprise/node'

const [url, token, stream, cursorFile, output] = process.argv.slice(2) as [string, string, string, string, string]
const cursors = new FileCursor(cursorFile)
for await (const event of new Reprise({ url, token }).streams.follow(stream, { cursors, saveEvery: -1 })) {
  appendFileSync(output, `${event.seq}\n`)
}
