-- Jobs of Tenure's partition wait, held, until Tenure says where they run (docs/how-to/run-on-slurm.md).
-- Put it beside slurm.conf as job_submit.lua, with JobSubmitPlugins=lua there.

local PARTITION = "tenure"
local MAY_RELEASE = {[0] = true} -- user ids: root; add the one that the Tenure server runs as
local CPUS_PER_GPU = nil -- such as 12: what a job gets that does not say, so that GPUs run out first

local function listed(partition)
   for name in string.gmatch(partition or "", "[^,]+") do
      if name == PARTITION then
         return true
      end
   end
   return false
end

local function refuse(words)
   slurm.log_user("Tenure: " .. words)
   return slurm.ERROR
end

local function asks_for_gpus(job)
   for _, asked in ipairs({"tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task", "gres"}) do
      if string.find(job[asked] or "", "gpu", 1, true) then
         return true
      end
   end
   return false
end

function slurm_job_submit(job, partitions, uid)
   local partition = job.partition
   if partition == nil then
      for name, one in pairs(partitions) do
         if one.flag_default == 1 then
            partition = name
         end
      end
   end
   if not listed(partition) then
      return slurm.SUCCESS
   end
   if partition ~= PARTITION then
      return refuse("name one partition alone, not " .. partition)
   end
   if not asks_for_gpus(job) then
      return refuse("ask for GPUs (--gpus=N), or choose another partition")
   end
   if job.req_nodes ~= nil then
      return refuse("leave --nodelist out: the nodes are chosen for you")
   end
   if CPUS_PER_GPU ~= nil and job.cpus_per_tres == nil then
      job.cpus_per_tres = "gres:gpu:" .. CPUS_PER_GPU
   end
   job.priority = 0 -- held
   return slurm.SUCCESS
end

function slurm_job_modify(change, job, partitions, uid)
   if MAY_RELEASE[uid] or not (listed(job.partition) or listed(change.partition)) then
      return slurm.SUCCESS
   end
   if change.priority ~= nil and change.priority ~= slurm.NO_VAL then
      return refuse("jobs here are held and released by Tenure: `tenure hold JOB`, `tenure release JOB`")
   end
   if change.req_nodes ~= nil or listed(change.partition) ~= listed(job.partition) then
      return refuse("neither nodes nor partition of a job can be changed here: cancel it and submit it anew")
   end
   return slurm.SUCCESS
end

return slurm.SUCCESS
