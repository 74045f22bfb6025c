-- Takes a stream out of the lists. Its number alone does not tell: after a failover another stream may have the same one.
-- KEYS: the lists. ARGV: the number and the name.
for _, list in ipairs(KEYS) do
  for _, member in ipairs(redis.call('ZRANGE', list, ARGV[1], ARGV[1], 'BYSCORE')) do
    if string.match(member, '^%d+:%d+:(.*)$') == ARGV[2] then redis.call('ZREM', list, member) end
  end
end
return 0
