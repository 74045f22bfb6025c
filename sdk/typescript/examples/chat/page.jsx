// A chat whose answers go on after a reload: the AI SDK's useChat, with the transport of reprise/ai.
import { useChat } from '@ai-sdk/react'
import { useState } from 'react'
import { createRoot } from 'react-dom/client'
import { RepriseChatTransport } from 'reprise/ai'

// The chat is in the address, so that a reload comes back to it.
location.hash ||= crypto.randomUUID()
const id = location.hash.slice(1)
let connection = 'connected'
const transport = new RepriseChatTransport({
  follow: { onDrop: () => (connection = 'lost, trying again'), onConnected: () => (connection = 'connected') },
})

function Chat() {
  const [input, setInput] = useState('')
  const { messages, sendMessage, status, error } = useChat({ id, resume: true, transport, experimental_throttle: 50 })
  const submit = (event) => {
    event.preventDefault()
    sendMessage({ text: input })
    setInput('')
  }
  return (
    <>
      {messages.map((message) => (
        <pre key={message.id} className={message.role}>
          {message.parts.map((part) => (part.type === 'text' ? part.text : ''))}
        </pre>
      ))}
      <form onSubmit={submit}>
        <input value={input} onChange={(event) => setInput(event.target.value)} placeholder="How far shall I count?" />
      </form>
      <p id="status">{error ? `error: ${error.message}` : `${status}, ${connection}`}</p>
    </>
  )
}

createRoot(document.getElementById('root')).render(<Chat />)
