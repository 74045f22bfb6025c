-- KEYS: the state and the batches. ARGV: the position, and the most bytes.
-- Answer: the state, id and fields of each batch, and what the server says of its history.
local info = must_be_master()
local state = redis.call('HGETALL', KEYS[1])
local st = {}
for i = 1, #state, 2 do st[state[i]] = state[i + 1] end
local left, found = tonumber(ARGV[2]), {}
if not st.t or left <= 0 or not more(st.t, ARGV[1]) or more(st.s, st.t) then return {state, found, info} end
local from = ARGV[1]
if more(st.s, from) then from = st.s else from = '(' .. from end
local total, count = 0, 4
while total < left do
  local entries = redis.call('XRANGE', KEYS[2], from, '+', 'COUNT', count)
  for _, entry in ipairs(entries) do
    local fields = entry[2]
    local n = #found
    found[n + 1], found[n + 2], found[n + 3] = entry[1], fields[2], fields[4]
    from = '(' .. entry[1]
    total = total + #fields[4]
    if total >= left then break end
  end
  if #entries < count then break end
  -- As many as are likely to be left, so that little is taken in vain.
  count = math.max(1, math.min(4 * count, 128, math.ceil((left - total) * #found / 3 / math.max(total, 1))))
end
return {state, found, info}
