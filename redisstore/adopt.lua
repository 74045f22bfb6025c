-- Decides what a stream is after its server was started again or another one was promoted: the same, or, where
-- events may be lost, another epoch, since their seqs will be given again.
-- KEYS: the state. ARGV: how to publish, who asks, the epoch, the one to take instead, "1" if a start loses
-- nothing, and the tail that an appender has seen. Answer: "0" nothing to do, "1" the same, "2" another epoch.
local st = redis.call('HMGET', KEYS[1], 'e', 't', 'h', 'r')
local now, before = history()
local epoch, owner = string.match(st[1] or '', '^(%S*)( %S* %d+)$')
if epoch ~= ARGV[3] or st[3] == now then return '0' end
local process = run()
local same = not before and (st[4] == process or ARGV[5] == '1') and not more(ARGV[6], st[2])
redis.call('HSET', KEYS[1], 'h', now, 'r', process)
if same then return '1' end
redis.call('HSET', KEYS[1], 'e', ARGV[4] .. owner)
redis.call(ARGV[1], KEYS[1], ARGV[2])
return '2'
