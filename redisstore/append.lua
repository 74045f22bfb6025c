-- KEYS: for each request the state and the batches of its stream.
-- ARGV: how to publish, who appends, and 13 for each request, see below.
-- Answer: one text for each request, "0" where it was stored.
local max_producers = 64

-- remember puts fresh appends of producers behind those that are known, in the place of those of the same id.
local function remember(known, fresh)
  local list, place = {}, {}
  for _, text in ipairs({known, fresh}) do
    local at = 1
    while at <= #text do
      local _, colon, size = string.find(text, '^(%d+):', at)
      local id = string.sub(text, colon + 1, colon + size)
      local stop = string.find(text, ';', colon + size + 1, true)
      if place[id] then list[place[id]] = false end
      list[#list + 1] = string.sub(text, at, stop)
      place[id] = #list
      at = stop + 1
    end
  end
  local left = {}
  for i = #list, 1, -1 do
    if list[i] and #left < max_producers then table.insert(left, 1, list[i]) end
  end
  return table.concat(left)
end

local now = history()
local replies = {}
for i = 1, #KEYS / 2 do
  local state, batches = KEYS[2 * i - 1], KEYS[2 * i]
  local a = 2 + 13 * (i - 1)
  local epoch, owner, fence, prev, last = ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 4], ARGV[a + 5]
  local st = redis.call('HMGET', state, 'e', 'o', 'f', 't', 's', 'h', 'x')
  local other = owner ~= st[2] or fence ~= st[3]
  local reply = '0'
  if st[1] ~= epoch then reply = '1'
  elseif other and not more(fence, st[3]) then reply = '2'
  elseif st[7] then reply = '3'
  elseif st[6] ~= now then reply = '5'
  elseif st[4] ~= prev then reply = '4' .. st[4]
  else
    local earliest, done = ARGV[a + 7], nil
    if more(earliest, st[5]) then
      done = redis.pcall('XADD', batches, 'MINID', '~', earliest, last .. '-0',
        'n', ARGV[a + 6], 'c', ARGV[a + 9], 'b', ARGV[a + 10])
    else
      earliest = st[5]
      done = redis.pcall('XADD', batches, last .. '-0', 'n', ARGV[a + 6], 'c', ARGV[a + 9], 'b', ARGV[a + 10])
    end
    if type(done) == 'table' then
      reply = '6' .. done.err
    else
      redis.call('HSET', state, 't', last, 's', earliest, 'k', ARGV[a + 8])
      if other then redis.call('HSET', state, 'o', owner, 'f', fence) end
      if ARGV[a + 11] ~= '' then redis.call('HSET', state, 'x', ARGV[a + 11], 'z', ARGV[a + 12]) end
      if ARGV[a + 13] ~= '' then
        redis.call('HSET', state, 'p', remember(redis.call('HGET', state, 'p') or '', ARGV[a + 13]))
      end
      redis.call(ARGV[1], state, ARGV[2])
    end
  end
  replies[i] = reply
end
return replies
