// Handlers as those of a Next.js app (app/api/jobs/.../route.ts), from Request to Response, with nothing of Next in them.
import { ProblemError, Reprise } from 'reprise'

const reprise = new Reprise() // REPRISE_URL, REPRISE_TOKEN
const encoder = new TextEncoder()

/** POST /api/jobs/[id]: starts a job, once however often it is asked for. */
export async function POST(request, { params }) {
  const { id } = await params
  const { steps = 3 } = await request.json()
  const job = await reprise.start({ id: `job.${id}`, argv: ['sh', '-c', 'for i in $(seq "$1"); do echo step $i; sleep 0.05; done', 'sh', String(steps)] })
  return Response.json({ id: job.id, status: job.status }, { status: 201 })
}

/** GET /api/jobs/[id]: its events for an EventSource, which comes back by itself and gets what it does not have. */
export async function GET(request, { params }) {
  const { id } = await params
  const after = request.headers.get('Last-Event-ID') ?? ''
  const events = reprise.follow(`job.${id}`, { after, signal: request.signal })[Symbol.asyncIterator]()
  let next
  try {
    next = await events.next() // a job that is not there is an error, and not an answer that breaks
  } catch (error) {
    if (error instanceof ProblemError) return Response.json({ code: error.code }, { status: error.status })
    throw error
  }
  if (next.done) return new Response(null, { status: 204 }) // an EventSource does not come back then
  const body = new ReadableStream({
    async pull(controller) {
      if (next.done) return controller.close()
      const { cursor, type, data } = next.value
      controller.enqueue(encoder.encode(`id: ${cursor}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`))
      next = await events.next()
    },
    cancel: () => events.return(),
  })
  return new Response(body, { headers: { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' } })
}
