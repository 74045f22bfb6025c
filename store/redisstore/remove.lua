-- KEYS: the state and the batches. ARGV: how to publish, who removes, the epoch or "", and one of
--   "trim", the new start of the window, the bytes kept, the seq before that start, another history than that of the
--     server that counts as this one, or "", and the history of the server for which it does
--   "mark", until when in ms
--   "drop"
--   "sweep", until when in ms, the time in ms
-- Answer: "1" if there is no stream, "0" if nothing was to be done, "5" if events may have been lost since the last append,
-- otherwise "9" and the state before.
local st = redis.call('HMGET', KEYS[1], 'e', 's', 't', 'z', 'm', 'h')
local what = ARGV[4]
if not st[1] then
  if what == 'drop' and ARGV[3] == '' and st[5] then redis.call('DEL', KEYS[1]) end
  return {'1'}
end
if ARGV[3] ~= '' and ARGV[3] ~= string.match(st[1], '^%S*') then return {'0'} end
if what == 'trim' then
  -- A trim beyond the tail is by somebody who knows of events that were lost.
  if not more(ARGV[5], st[2]) or more(ARGV[7], st[3]) then return {'0'} end
  local now = history()
  if st[6] ~= now and (st[6] ~= ARGV[8] or now ~= ARGV[9]) then return {'5'} end
  redis.call('HSET', KEYS[1], 's', ARGV[5], 'k', ARGV[6])
  redis.call('XTRIM', KEYS[2], 'MINID', ARGV[5])
  redis.call(ARGV[1], KEYS[1], ARGV[2])
  return {'9', {}}
end
if what == 'sweep' and (not st[4] or more(st[4], ARGV[6])) then return {'0', st[4] or ''} end
local state = redis.call('HGETALL', KEYS[1])
redis.call('UNLINK', KEYS[1], KEYS[2])
if what ~= 'drop' then
  redis.call('HSET', KEYS[1], 'm', ARGV[5])
  redis.call('PEXPIREAT', KEYS[1], ARGV[5])
end
redis.call(ARGV[1], KEYS[1], ARGV[2])
return {'9', state}
