import { useEffect, useRef, useState } from 'preact/hooks'
import { Problem } from './api'
import { duration } from './format'
import { useAction } from './hooks'
import { MCPClient, type Tool, type ToolResult, sampleOf } from './mcpclient'
import { ProblemBox } from './parts'

/** Calls the tools of this server as a client of MCP does. */
export function TryIt() {
  const client = useRef<MCPClient | undefined>(undefined)
  const stop = useRef<AbortController | undefined>(undefined)
  const [tools, setTools] = useState<Tool[]>([])
  const [tool, setTool] = useState<Tool>()
  const [args, setArgs] = useState('{}')
  const [said, setSaid] = useState<string[]>([])
  const [answer, setAnswer] = useState<{ result: ToolResult; took: number }>()
  const choose = (chosen: Tool | undefined) => {
    setTool(chosen)
    if (chosen) setArgs(sampleOf(chosen))
    setAnswer(undefined)
  }
  const open = useAction(async () => {
    const opened = new MCPClient()
    client.current = opened
    await opened.open()
    const list = await opened.tools()
    setTools(list)
    choose(list.find(({ name }) => name === 'execute_code') ?? list[0])
  })
  const run = useAction(async () => {
    setAnswer(undefined)
    setSaid([])
    const given = parsed(args)
    stop.current = new AbortController()
    const began = performance.now()
    const result = await client.current!.call(tool!.name, given, (text) => setSaid((all) => [...all.slice(-99), text]), stop.current.signal)
    setAnswer({ result, took: performance.now() - began })
  })
  useEffect(() => {
    void open.run()
    return () => {
      stop.current?.abort()
      client.current?.close()
    }
  }, [])
  return (
    <form
      class="card try"
      aria-label="Try a tool"
      onSubmit={(event) => {
        event.preventDefault()
        if (tool) void run.run()
      }}
    >
      <div class="columns">
        <label class="field">
          <span>Tool</span>
          <select disabled={tools.length === 0} value={tool?.name} onChange={(event) => choose(tools.find(({ name }) => name === event.currentTarget.value))}>
            {tools.map(({ name }) => <option key={name} value={name}>{name}</option>)}
          </select>
        </label>
        <p class="soft try-about">{tool?.description}</p>
      </div>
      <label class="field">
        <span>Arguments, as JSON</span>
        <textarea
          class="mono"
          rows={Math.min(8, args.split('\n').length + 1)}
          spellcheck={false}
          value={args}
          onInput={(event) => setArgs(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) event.currentTarget.form?.requestSubmit()
          }}
        />
      </label>
      <ProblemBox problem={open.problem ?? run.problem} onClose={() => (open.clear(), run.clear())} />
      <p class="actions">
        <button type="submit" class="primary" disabled={!tool || run.busy}>{run.busy ? 'Calling…' : 'Call'}</button>
        <span class="soft" role="status">{answer && `${answer.result.isError ? 'failed' : 'answered'} after ${duration(answer.took)}`}</span>
      </p>
      {said.length > 0 && <pre class="mono soft" tabIndex={0} aria-label="What the server said meanwhile">{said.join('\n')}</pre>}
      {answer && <Answer result={answer.result} />}
    </form>
  )
}

function Answer({ result: { content, structuredContent, isError } }: { result: ToolResult }) {
  const text = content?.map((part) => part.text ?? JSON.stringify(part)).join('\n')
  return (
    <pre class={isError ? 'mono answer is-error' : 'mono answer'} tabIndex={0} aria-label="Answer">
      {text || JSON.stringify(structuredContent, null, 2)}
    </pre>
  )
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new Problem('invalid', 'The arguments are no JSON', (error as Error).message, 0, false)
  }
}
