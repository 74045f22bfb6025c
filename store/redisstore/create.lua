-- KEYS: the state and the batches. ARGV: the configuration and, unless the stream is only looked for, how to publish, who creates,
-- the id, the head and the bytes of the first batch, all three empty if there is none, when the keys expire by themselves, "" for
-- never, and names and values of the state.
-- Answer: "0", the state and what the server says of its history if there is one, "4" if it has another configuration, "1" if there is none and none
-- was asked for, "9" if it was made.
local st = redis.call('HMGET', KEYS[1], 'e', 'c')
if st[1] then
  if st[2] ~= ARGV[1] then return {'4'} end
  return {'0', redis.call('HGETALL', KEYS[1]), redis.call('INFO', 'replication')}
end
if #ARGV == 1 then return {'1'} end
redis.call('DEL', KEYS[1], KEYS[2])
local filled = ARGV[4] ~= ''
if filled then redis.call('XADD', KEYS[2], ARGV[4], 'h', ARGV[5], 'b', ARGV[6]) end
redis.call('HSET', KEYS[1], unpack(ARGV, 8))
redis.call('HSET', KEYS[1], 'h', (history()), 'r', run())
if ARGV[7] ~= '' then expire(KEYS[1], KEYS[2], ARGV[7]) end
if filled then redis.call(ARGV[2], KEYS[1], ARGV[3]) end
return {'9', redis.call('HGETALL', KEYS[1])}
