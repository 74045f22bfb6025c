-- Gives a stream another number. KEYS: the state. ARGV: the number before and after. Answer: 0 if it has another one by now.
if redis.call('HGET', KEYS[1], 'n') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'n', ARGV[2])
return 1
