-- Numbers that may not fit a double (seqs, fences) are texts of decimal digits without leading zeros.
local function more(a, b)
  if #a ~= #b then return #a > #b end
  return a > b
end

-- history is the id of what this server has been told: another one after each start, and after each
-- promotion from replica to master. The second result is not nil if it was a replica of another one before.
local function history()
  local info = redis.call('INFO', 'replication')
  local before = string.match(info, 'master_replid2:(%x+)')
  if not before or not string.find(before, '[^0]') then before = nil end
  return string.match(info, 'master_replid:(%x+)'), before
end

local function run()
  return string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
end

-- What a replica has may be old: it is not shown. The result is what the server says of its history.
local function must_be_master()
  local info = redis.call('INFO', 'replication')
  if not string.find(info, 'role:master', 1, true) then
    error({err = 'READONLY this server is a replica'})
  end
  return info
end

-- expire lets the keys of a stream expire by themselves.
local function expire(state, batches, ms)
  redis.call('PEXPIREAT', state, ms)
  redis.call('PEXPIREAT', batches, ms)
end
