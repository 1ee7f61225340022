-- Reads the fence and what is stored under ids, at one instant.
--
-- KEYS  1 meta, then shards
-- ARGV  for each shard the number of ids, then the ids
-- Reply: OK, token, seq, then for each shard a value (for one id) or an array of values
local call = redis.call
local at = call('HMGET', KEYS[1], 'token', 'seq', 'torn')
if not at[1] then return {'NOSTATE'} end
if at[3] and at[3] ~= '' then return {'TORN', at[3]} end
local out, pos = {'OK', at[1], at[2]}, 1
for k = 2, #KEYS do
  local n = tonumber(ARGV[pos])
  if n == 1 then
    out[k + 2] = call('HGET', KEYS[k], ARGV[pos + 1])
  else
    out[k + 2] = call('HMGET', KEYS[k], unpack(ARGV, pos + 1, pos + n))
  end
  pos = pos + n + 1
end
return out
