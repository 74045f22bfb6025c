-- KEYS: for each request the state and the batches of its stream.
-- ARGV: how to publish, who appends, for each request its life, the tail before and after it, the start of the window, the
-- bytes kept, the head and the bytes of the batch, the revision, and where more stands behind all of these, 0 if nothing: the end, when it
-- expires, producers, and when the keys of an ended stream expire by themselves, "" for never.
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

-- other_owner answers an append by another owner than that of the stream, or to another epoch.
local function other_owner(is, asked)
  if not is then return '1' end
  local epoch, _, fence = string.match(is, '^(%S*) (%S*) (%d+)$')
  local asked_epoch, _, asked_fence = string.match(asked, '^(%S*) (%S*) (%d+)$')
  if epoch ~= asked_epoch then return '1' end
  if not more(asked_fence, fence) then return '2' end
  return '0'
end

local call, now, replies = redis.call, history(), {}
for i = 1, #KEYS / 2 do
  local state, batches = KEYS[2 * i - 1], KEYS[2 * i]
  local a = 2 + 9 * (i - 1)
  local life, prev, last, earliest, extra = ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 4], tonumber(ARGV[a + 9])
  local st = call('HMGET', state, 'e', 't', 's', 'h', 'x', 'v')
  local reply, takes = '0', false
  if st[1] ~= life then
    reply = other_owner(st[1], life)
    takes = reply == '0'
  end
  if reply ~= '0' then
  elseif st[5] then reply = '3'
  elseif st[4] ~= now then reply = '5'
  elseif st[2] ~= prev or (st[6] or '0') ~= ARGV[a + 8] then reply = '4' .. st[2]
  else
    local done
    if earliest ~= st[3] and more(earliest, st[3]) then
      done = redis.pcall('XADD', batches, 'MINID', '~', earliest, last .. '-0', 'h', ARGV[a + 6], 'b', ARGV[a + 7])
    else
      earliest = st[3]
      done = redis.pcall('XADD', batches, last .. '-0', 'h', ARGV[a + 6], 'b', ARGV[a + 7])
    end
    if type(done) == 'table' then
      reply = '6' .. done.err
    else
      call('HSET', state, 't', last, 's', earliest, 'k', ARGV[a + 5])
      if takes then call('HSET', state, 'e', life) end
      if extra > 0 then
        if ARGV[extra] ~= '' then call('HSET', state, 'x', ARGV[extra], 'z', ARGV[extra + 1]) end
        if ARGV[extra + 3] ~= '' then expire(state, batches, ARGV[extra + 3]) end
        if ARGV[extra + 2] ~= '' then
          call('HSET', state, 'p', remember(call('HGET', state, 'p') or '', ARGV[extra + 2]))
        end
      end
      call(ARGV[1], state, ARGV[2])
    end
  end
  replies[i] = reply
end
return replies
