-- KEYS: the state and the batches. ARGV: how to publish, who changes it, the epoch, the revision before and after, the
-- configuration, the end with its new expiry, "" if the stream has not ended, when it expires in ms, and when its keys do, "" for
-- never.
-- Answer: "0" if the stream is not as it was read, otherwise "9" and the state.
local st = redis.call('HMGET', KEYS[1], 'e', 'v', 'x')
if not st[1] or ARGV[3] ~= string.match(st[1], '^%S*') or (st[2] or '0') ~= ARGV[4] then return {'0'} end
if (st[3] and true or false) ~= (ARGV[7] ~= '') then return {'0'} end
redis.call('HSET', KEYS[1], 'c', ARGV[6], 'v', ARGV[5])
if st[3] then redis.call('HSET', KEYS[1], 'x', ARGV[7], 'z', ARGV[8]) end
if ARGV[9] ~= '' then expire(KEYS[1], KEYS[2], ARGV[9]) end
redis.call(ARGV[1], KEYS[1], ARGV[2])
return {'9', redis.call('HGETALL', KEYS[1])}
