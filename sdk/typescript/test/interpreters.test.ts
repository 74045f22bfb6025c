// Interpreters that remember, and files that are kept with executions, against a real server, through cuts.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { ProtocolError } from 'reprise'
import { Cutter } from './cutter.js'
import { script } from './script.js'
import { Server } from './server.js'

/** What is declared and asked for in each language. bash has output and exit codes alone. */
const languages = {
  bash: { declare: 'x=41; cd /', ask: 'echo $((x + 1)) $PWD', out: '42 /\n', value: undefined, forgotten: '1 ' },
  python: { declare: 'x = 41', ask: 'print("out"); x + 1', out: 'out\n', value: '42', forgotten: undefined },
  javascript: { declare: 'var x = 41', ask: 'console.log("out"); x + 1', out: 'out\n', value: '42', forgotten: undefined },
}

for (const [language, { declare, ask, out, value, forgotten }] of Object.entries(languages)) {
  test(`${language} remembers, shows, fails, is interrupted and forgets`, { timeout: 120_000 }, async (t) => {
    const server = await Server.start(t)
    const { interpreters } = server.client()
    const opened = await interpreters.open({ language, idle_timeout: '10m', labels: { a: 'b' } })
    assert.deepEqual([opened.language, opened.labels], [language, { a: 'b' }])
    assert.deepEqual((await interpreters.open({ id: opened.id, language, idle_timeout: '10m', labels: { a: 'b' } })).id, opened.id)
    assert.deepEqual((await interpreters.list()).interpreters.map(({ id }) => id), [opened.id])

    assert.equal((await interpreters.run(opened.id, declare)).exitCode, 0)
    const shown = await interpreters.run(opened.id, ask)
    assert.deepEqual([shown.stdout, shown.stderr, shown.exitCode, shown.end.outcome], [out, '', 0, 'exited'])
    assert.equal(shown.result?.mime['text/plain'], value)
    assert.equal((await interpreters.show(opened.id)).runs, 2)

    if (language !== 'bash') {
      const failed = await interpreters.run(opened.id, language === 'python' ? 'raise ValueError("no")' : 'throw new TypeError("no")')
      assert.deepEqual([failed.exception?.name, failed.exception?.value], [language === 'python' ? 'ValueError' : 'TypeError', 'no'])
      assert.ok(failed.exception!.traceback.length > 0)
      assert.equal(failed.exitCode, 1)
    }
    const waits = { bash: 'echo go; sleep 600', python: 'print("go", flush=True)\nimport time; time.sleep(600)', javascript: 'console.log("go"); await new Promise(() => setInterval(() => {}, 1000))' }
    let code: number | null | undefined
    for await (const event of server.client().run({ interpreter: opened.id, code: waits[language as keyof typeof waits] })) {
      if (event.type === 'stdout') await interpreters.interrupt(opened.id)
      if (event.type === 'end') code = event.data.exit_code
    }
    assert.equal(code, 130)

    assert.equal((await interpreters.clear(opened.id)).exitCode, 0)
    const after = await interpreters.run(opened.id, ask)
    if (forgotten === undefined) assert.match(after.exception!.name, /^(NameError|ReferenceError)$/)
    else assert.ok(after.stdout.startsWith(forgotten), after.stdout)
    await interpreters.remove(opened.id)
    await assert.rejects(interpreters.show(opened.id), { code: 'not_found' })
    await assert.rejects(interpreters.run(opened.id, ask), { code: 'not_found' })
  })
}

test('values by MIME type, in order, over cut connections', { timeout: 120_000 }, async (t) => {
  const server = await Server.start(t)
  const cutter = await Cutter.start(t, server.url, (n) => (n < 8 ? { after: 3000, how: 'rst' } : undefined))
  const { interpreters } = server.client({ url: cutter.url, giveUp: 60_000 })
  const { id } = await interpreters.open({ language: 'python' })
  const code = `
class Page:
  def __init__(self, n): self.n = n
  def _repr_html_(self): return f"<p>{self.n}</p>"
for n in range(50): display(Page(n)); print(n)
Page("last")`
  const result = await interpreters.run(id, code)
  assert.deepEqual(result.displays.map(({ mime }) => mime['text/html']), Array.from({ length: 50 }, (_, n) => `<p>${n}</p>`))
  assert.equal(result.stdout, Array.from({ length: 50 }, (_, n) => `${n}\n`).join(''))
  assert.equal(result.result?.mime['text/html'], '<p>last</p>')
  assert.ok(cutter.cuts >= 2, `${cutter.cuts} cuts`)
})

test('what a command has made is listed and read, over cut connections', { timeout: 120_000 }, async (t) => {
  const cwd = mkdtempSync(join(tmpdir(), 'reprise-artifacts-'))
  t.after(() => rmSync(cwd, { recursive: true, force: true }))
  const server = await Server.start(t)
  const command = 'mkdir -p out/deep; head -c 3000000 /dev/urandom > "out/a b.bin"; : > out/deep/empty; sha256sum "out/a b.bin"'
  const run = await server.client().run({ command, cwd, artifacts: ['out', 'missing'] }).result()
  const cutter = await Cutter.start(t, server.url, (n) => (n < 4 ? { after: 500_000, how: n % 2 ? 'fin' : 'rst' } : undefined))
  const reprise = server.client({ url: cutter.url, giveUp: 60_000 })
  const { artifacts, artifact_notes: notes } = await reprise.show(run.id)
  assert.deepEqual(artifacts!.map(({ path, size }) => [path, size]), [['out/a b.bin', 3_000_000], ['out/deep/empty', 0]])
  assert.equal(artifacts![0]!.sha256, run.stdout.split(' ')[0])
  assert.match(notes!.join(), /missing/)
  const bytes = new Uint8Array(await new Response(reprise.artifact(run.id, 'out/a b.bin')).arrayBuffer())
  const sum = Buffer.from(await crypto.subtle.digest('SHA-256', bytes)).toString('hex')
  assert.deepEqual([bytes.length, sum], [3_000_000, artifacts![0]!.sha256])
  assert.equal(await new Response(reprise.artifact(run.id, 'out/deep/empty')).text(), '')
  assert.ok(cutter.cuts >= 3, `${cutter.cuts} cuts`)
  await assert.rejects(new Response(reprise.artifact(run.id, 'out/none')).text(), { code: 'not_found' })
})

test('an artifact with another checksum than the server names is refused', async (t) => {
  const { client } = await script(t, (_, response) => {
    const headers = { 'Content-Type': 'application/octet-stream', ETag: `"${'0'.repeat(64)}"`, 'Content-Length': '3' }
    response.writeHead(200, headers).end('abc')
  })
  await assert.rejects(new Response(client({ giveUp: 0 }).artifact('a', 'b')).text(), ProtocolError)
})
