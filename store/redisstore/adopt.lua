-- Decides what a stream is after its server was started again or another one was promoted: the same, or, where
-- events may be lost, in another epoch, since their seqs will be given again. The epoch before is put into the lineage.
-- KEYS: the state. ARGV: how to publish, who asks, the epoch, the one to take instead, "1" if a start loses
-- nothing, and the tail that an appender has seen. Answer: "0" nothing to do, "1" the same, "2" another epoch.
local max_lineage = 32

-- renewed is the lineage of the epoch after, which follows the epoch before with the tail as its fork.
local function renewed(lineage, before, after, tail)
  local of, list = string.match(lineage or '', '^([^;]*);(.*)$')
  if of ~= before then list = '' end -- a program that knows no lineage has changed the epoch
  list = list .. before .. ' ' .. tail .. ';'
  local _, count = string.gsub(list, ';', '')
  for _ = max_lineage + 1, count do
    list = string.sub(list, string.find(list, ';', 1, true) + 1)
  end
  return after .. ';' .. list
end

local st = redis.call('HMGET', KEYS[1], 'e', 't', 'h', 'r', 'l')
local now, before = history()
local epoch, owner = string.match(st[1] or '', '^(%S*)( %S* %d+)$')
if epoch ~= ARGV[3] or st[3] == now then return '0' end
local process = run()
local same = not before and (st[4] == process or ARGV[5] == '1') and not more(ARGV[6], st[2])
redis.call('HSET', KEYS[1], 'h', now, 'r', process)
if same then return '1' end
redis.call('HSET', KEYS[1], 'e', ARGV[4] .. owner, 'l', renewed(st[5], epoch, ARGV[4], st[2]))
redis.call(ARGV[1], KEYS[1], ARGV[2])
return '2'
