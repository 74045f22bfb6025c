-- Gives a stream its number and puts it into the lists.
-- KEYS: the number and the lists. ARGV: when in ms, and the name. Answer: the number.
local number = redis.call('INCR', KEYS[1])
for i = 2, #KEYS do
  redis.call('ZADD', KEYS[i], number, number .. ':' .. ARGV[1] .. ':' .. ARGV[2])
end
return number
