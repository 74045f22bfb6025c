-- Puts a stream that is in no list into the lists, where it was or, if its number was given again, as the newest.
-- KEYS: the number and the lists, that of all streams first. ARGV: the number of the stream, when in ms, and its name.
-- Answer: its number in the lists, and 1 if it was in none.
local number, name = ARGV[1], ARGV[3]
local taken = redis.call('ZRANGE', KEYS[2], number, number, 'BYSCORE')
for _, member in ipairs(taken) do
  if string.match(member, '^%d+:%d+:(.*)$') == name then return {number, 0} end
end
if #taken > 0 then
  number = tostring(redis.call('INCR', KEYS[1]))
elseif more(number, redis.call('GET', KEYS[1]) or '0') then
  redis.call('SET', KEYS[1], number)
end
for i = 2, #KEYS do
  redis.call('ZADD', KEYS[i], number, number .. ':' .. ARGV[2] .. ':' .. name)
end
return {number, 1}
