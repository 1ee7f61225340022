-- Reads the fence and ids of the lowest buckets, at one instant.
--
-- KEYS  1 meta, 2 due
-- ARGV  1 what the keys of buckets begin with, 2 the highest bucket, 3 limit
-- Reply: OK, token, seq, then bucket, array of ids, bucket, array of ids, ...
local call = redis.call
local at = call('HMGET', KEYS[1], 'token', 'seq', 'torn')
if not at[1] then return {'NOSTATE'} end
if at[3] and at[3] ~= '' then return {'TORN', at[3]} end
local out, left = {'OK', at[1], at[2]}, tonumber(ARGV[3])
for _, bucket in ipairs(call('ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[2], 'LIMIT', '0', ARGV[3])) do
  if left <= 0 then break end
  -- Not SSCAN: it can come back empty from a set that once was large.
  local ids = call('SRANDMEMBER', ARGV[1] .. bucket, left)
  left = left - #ids
  out[#out + 1] = bucket
  out[#out + 1] = ids
end
return out
