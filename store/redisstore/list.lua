-- Gives a stream its number and puts it into the lists.
-- KEYS: the number, the expiry queue and the lists. ARGV: when in ms, the name and, for a stream that is made with its end, when it
-- expires in ms and its member of the queue. Answer: the number.
local number = redis.call('INCR', KEYS[1])
for i = 3, #KEYS do
  redis.call('ZADD', KEYS[i], number, number .. ':' .. ARGV[1] .. ':' .. ARGV[2])
end
if ARGV[4] then redis.call('ZADD', KEYS[2], ARGV[3], ARGV[4]) end
return number
