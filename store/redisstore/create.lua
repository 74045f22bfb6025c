-- KEYS: the state and the batches. ARGV: the configuration, then names and values of the state, none to look only.
-- Answer: "0", the state and what the server says of its history if there is one, "4" if it has another configuration, "1" if there is none and none
-- was asked for, "9" if it was made.
local st = redis.call('HMGET', KEYS[1], 'e', 'c')
if st[1] then
  if st[2] ~= ARGV[1] then return {'4'} end
  return {'0', redis.call('HGETALL', KEYS[1]), redis.call('INFO', 'replication')}
end
if #ARGV == 1 then return {'1'} end
redis.call('DEL', KEYS[1], KEYS[2])
redis.call('HSET', KEYS[1], 'c', unpack(ARGV))
redis.call('HSET', KEYS[1], 'h', (history()), 'r', run())
return {'9', redis.call('HGETALL', KEYS[1])}
